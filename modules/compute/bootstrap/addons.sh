# shellcheck shell=bash
# What a bare kubeadm cluster lacks: a network, the cloud controller, storage.

# fetch downloads a file that must have the given sum.
#   fetch <URL> <SHA-256> <file>
fetch() {
  retry 8 curl -sS -f -L --max-time 300 -o "$3" "$1"
  if [[ $(sha256sum <"$3") != "$2  -" ]]; then
    die "$1 does not have the sum of versions.env"
  fi
}

apply() { retry 6 kubectl_local apply --server-side --force-conflicts -f "$1"; }

# Calico by VXLAN alone: AWS drops what pods send by their own addresses, unless
# each machine's check of source and destination is off, which a launch template
# cannot say.
install_calico() {
  phase "network"
  fetch "$CALICO_CRDS_URL" "$CALICO_CRDS_SHA256" "$RUN_DIR/calico-crds.yaml"
  fetch "$CALICO_OPERATOR_URL" "$CALICO_OPERATOR_SHA256" "$RUN_DIR/calico-operator.yaml"
  apply "$RUN_DIR/calico-crds.yaml"
  apply "$RUN_DIR/calico-operator.yaml"
  cat >"$RUN_DIR/calico.yaml" <<END
apiVersion: operator.tigera.io/v1
kind: Installation
metadata:
  name: default
spec:
  calicoNetwork:
    bgp: Disabled
    ipPools:
      - name: default-ipv4-ippool
        blockSize: 26
        cidr: $KUBEOPERA_POD_CIDR
        encapsulation: VXLAN
        natOutgoing: Enabled
        nodeSelector: all()
    nodeAddressAutodetectionV4:
      kubernetes: NodeInternalIP
END
  # The definitions of its kinds need a moment.
  apply "$RUN_DIR/calico.yaml"
  rm -f "$RUN_DIR"/calico*.yaml
}

# The cloud controller asks the API server of its own node and the machine's DNS,
# so that it needs neither pod network nor Service addresses nor CoreDNS, all of
# which may be waiting for it.
install_cloud_controller_manager() {
  local minor=${KUBEOPERA_KUBERNETES_VERSION%.*} version
  phase "cloud controller"
  version=CCM_VERSION_${minor//./_}
  cat >"$RUN_DIR/ccm.yaml" <<END
apiVersion: v1
kind: ServiceAccount
metadata:
  name: cloud-controller-manager
  namespace: kube-system
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: cloud-controller-manager:apiserver-authentication-reader
  namespace: kube-system
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: extension-apiserver-authentication-reader
subjects:
  - kind: ServiceAccount
    name: cloud-controller-manager
    namespace: kube-system
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: system:cloud-controller-manager
rules:
  - apiGroups: [""]
    resources: [events]
    verbs: [create, patch, update]
  - apiGroups: [""]
    resources: [nodes]
    verbs: [get, list, watch, create, update, patch, delete]
  - apiGroups: [""]
    resources: [nodes/status]
    verbs: [patch]
  - apiGroups: [""]
    resources: [services]
    verbs: [get, list, watch, patch, update]
  - apiGroups: [""]
    resources: [services/status]
    verbs: [patch, update]
  - apiGroups: [""]
    resources: [serviceaccounts]
    verbs: [get, list, watch, create]
  - apiGroups: [""]
    resources: [serviceaccounts/token]
    verbs: [create]
  - apiGroups: [""]
    resources: [configmaps]
    verbs: [get, list, watch]
  - apiGroups: [discovery.k8s.io]
    resources: [endpointslices]
    verbs: [get, list, watch]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [get, list, watch, create, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: system:cloud-controller-manager
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: system:cloud-controller-manager
subjects:
  - kind: ServiceAccount
    name: cloud-controller-manager
    namespace: kube-system
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: aws-cloud-controller-manager
  namespace: kube-system
spec:
  selector:
    matchLabels:
      k8s-app: aws-cloud-controller-manager
  template:
    metadata:
      labels:
        k8s-app: aws-cloud-controller-manager
    spec:
      serviceAccountName: cloud-controller-manager
      priorityClassName: system-cluster-critical
      hostNetwork: true
      dnsPolicy: Default
      nodeSelector:
        node-role.kubernetes.io/control-plane: ""
      tolerations:
        - operator: Exists
      containers:
        - name: aws-cloud-controller-manager
          image: $CCM_IMAGE:${!version}
          args:
            - --v=2
            - --cloud-provider=aws
            - --cluster-name=$KUBEOPERA_CLUSTER_NAME
            - --configure-cloud-routes=false
            - --leader-elect=true
          env:
            - name: KUBERNETES_SERVICE_HOST
              value: 127.0.0.1
            - name: KUBERNETES_SERVICE_PORT
              value: "6443"
          resources:
            requests:
              cpu: 100m
              memory: 64Mi
END
  apply "$RUN_DIR/ccm.yaml"
  rm -f "$RUN_DIR/ccm.yaml"
}

# The driver's controller runs on control planes, which alone have the rights, and
# on the machine's own network, where the instance metadata can be reached. Without
# the snapshot kinds in the cluster its snapshotter would only crash.
install_ebs_csi() {
  local dir=$RUN_DIR/ebs-csi replicas=1
  phase "storage"
  if ((COUNT > 1)); then
    replicas=2
  fi
  rm -rf "$dir"
  mkdir -p "$dir/base"
  retry 8 curl -sS -f -L --max-time 300 -o "$dir/driver.tar.gz" "$EBS_CSI_URL"
  run tar -xzf "$dir/driver.tar.gz" -C "$dir/base" --strip-components=4 --wildcards '*/deploy/kubernetes/base/*.yaml'
  if [[ $(cd "$dir/base" && sha256sum -- *.yaml | sha256sum) != "$EBS_CSI_SHA256  -" ]]; then
    die "the manifests in $EBS_CSI_URL do not have the sum of versions.env"
  fi
  cat >"$dir/kustomization.yaml" <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - base
  - class.yaml
patches:
  # The tag by which a destroy finds the cluster's volumes.
  - target:
      kind: Deployment
      name: ebs-csi-controller
    patch: |
      - op: test
        path: /spec/template/spec/containers/0/name
        value: ebs-plugin
      - op: add
        path: /spec/template/spec/containers/0/args/-
        value: --k8s-tag-cluster-id=$KUBEOPERA_CLUSTER_NAME
  - patch: |
      apiVersion: apps/v1
      kind: Deployment
      metadata:
        name: ebs-csi-controller
        namespace: kube-system
      spec:
        replicas: $replicas
        template:
          spec:
            hostNetwork: true
            dnsPolicy: ClusterFirstWithHostNet
            nodeSelector:
              node-role.kubernetes.io/control-plane: ""
            tolerations:
              - key: node-role.kubernetes.io/control-plane
                effect: NoSchedule
              - key: CriticalAddonsOnly
                operator: Exists
              - effect: NoExecute
                operator: Exists
                tolerationSeconds: 300
            containers:
              - name: csi-snapshotter
                \$patch: delete
END
  cat >"$dir/class.yaml" <<'END'
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: gp3
  annotations:
    storageclass.kubernetes.io/is-default-class: "true"
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
parameters:
  type: gp3
  encrypted: "true"
END
  kubectl kustomize "$dir" >"$dir/all.yaml" 2>"$RUN_DIR/output" ||
    { ERROR="kubectl kustomize: $(say "$RUN_DIR/output")" && return 1; }
  apply "$dir/all.yaml"
  rm -rf "$dir"
}

install_addons() {
  if has_addon calico; then install_calico; fi
  if has_addon cloud-controller-manager; then install_cloud_controller_manager; fi
  if has_addon ebs-csi; then install_ebs_csi; fi
}

# wait_for_addons waits for the order in which a first node comes up: the network
# makes it ready, the cloud controller takes its taint away, CoreDNS then runs. A
# cluster without DNS is still worth publishing: it can be looked at.
wait_for_addons() {
  phase "wait for node"
  if has_addon calico; then
    until_ready "this node" node_is_ready
  fi
  if has_addon cloud-controller-manager; then
    until_ready "the cloud controller" node_is_initialized
  fi
  if has_addon calico && ! run kubectl_local -n kube-system rollout status deployment/coredns --timeout=300s; then
    report RUNNING "CoreDNS is not available: $ERROR"
  fi
}
