# What a machine is told at its first boot: a compressed cloud-config that writes
# the scripts of bootstrap/ as they are, the machine's part in bootstrap.env, and
# the unit that runs them, again after a failure or a reboot. No secret is in it:
# anybody who may describe the instance can read it.

locals {
  # AWS takes so many bytes, after decoding base64 and before unpacking.
  user_data_limit = 16384

  # Comments are for readers of bootstrap/, not for machines.
  sources = {
    for name in fileset("${path.module}/bootstrap", "*.{sh,env,service,timer}") :
    name => replace(file("${path.module}/bootstrap/${name}"), "/(?m)^[ \\t]*#( .*)?\\n/", "")
  }

  # Where each file goes. Both kinds of nodes start the same unit, which runs
  # bootstrap.sh: that is control-plane.sh on one kind and worker.sh on the other.
  common_files = {
    "/usr/local/lib/kubeopera/common.sh"              = { source = "common.sh", mode = "0644" }
    "/usr/local/lib/kubeopera/node.sh"                = { source = "node.sh", mode = "0644" }
    "/usr/local/lib/kubeopera/kubeadm.sh"             = { source = "kubeadm.sh", mode = "0644" }
    "/usr/local/lib/kubeopera/versions.env"           = { source = "versions.env", mode = "0644" }
    "/etc/systemd/system/kubeopera-bootstrap.service" = { source = "kubeopera-bootstrap.service", mode = "0644" }
  }
  control_plane_files = merge(local.common_files, {
    "/usr/local/lib/kubeopera/cluster.sh"           = { source = "cluster.sh", mode = "0644" }
    "/usr/local/lib/kubeopera/addons.sh"            = { source = "addons.sh", mode = "0644" }
    "/usr/local/lib/kubeopera/bootstrap.sh"         = { source = "control-plane.sh", mode = "0755" }
    "/usr/local/lib/kubeopera/refresh.sh"           = { source = "refresh.sh", mode = "0755" }
    "/etc/systemd/system/kubeopera-refresh.service" = { source = "kubeopera-refresh.service", mode = "0644" }
    "/etc/systemd/system/kubeopera-refresh.timer"   = { source = "kubeopera-refresh.timer", mode = "0644" }
  })
  worker_files = merge(local.common_files, {
    "/usr/local/lib/kubeopera/bootstrap.sh" = { source = "worker.sh", mode = "0755" }
  })

  parameter_prefix = trimsuffix(var.parameters["join_token"].name, "/join_token")

  # The values are put into a shell's file without quotes: the variables'
  # validations allow nothing that a shell would read as anything but itself.
  settings = {
    KUBEOPERA_CLUSTER_NAME        = var.cluster_name
    KUBEOPERA_CONTROL_PLANE_COUNT = var.control_plane_count
    KUBEOPERA_KUBERNETES_VERSION  = var.kubernetes_version
    KUBEOPERA_PARAMETER_PREFIX    = local.parameter_prefix
  }
  control_plane_settings = [
    for index in range(var.control_plane_count) : merge(local.settings, {
      KUBEOPERA_ROLE  = "control-plane"
      KUBEOPERA_INDEX = index
      # kubeadm refuses capitals, which a load balancer's DNS name may have.
      KUBEOPERA_ENDPOINT_HOST = lower(var.control_plane_endpoint_override != null ? var.control_plane_endpoint_override : "")
      KUBEOPERA_CERT_SANS     = lower(join(",", local.cert_sans))
      KUBEOPERA_POD_CIDR      = var.pod_cidr
      KUBEOPERA_SERVICE_CIDR  = var.service_cidr
    })
  ]
  worker_settings = merge(local.settings, { KUBEOPERA_ROLE = "worker" })

  cert_sans = concat(
    var.control_plane_elastic_ip != null ? [var.control_plane_elastic_ip.public_ip] : [],
    var.api_server_cert_sans,
  )

  control_plane_user_data = [
    for settings in local.control_plane_settings : base64gzip(join("", ["#cloud-config\n", yamlencode({
      write_files = concat(
        [for path, file in local.control_plane_files : { path = path, permissions = file.mode, content = local.sources[file.source] }],
        [{ path = "/etc/kubeopera/bootstrap.env", permissions = "0600", content = join("", [for key, value in settings : "${key}=${value}\n"]) }],
      )
      runcmd = local.run
    })]))
  ]

  worker_user_data = base64gzip(join("", ["#cloud-config\n", yamlencode({
    write_files = concat(
      [for path, file in local.worker_files : { path = path, permissions = file.mode, content = local.sources[file.source] }],
      [{ path = "/etc/kubeopera/bootstrap.env", permissions = "0600", content = join("", [for key, value in local.worker_settings : "${key}=${value}\n"]) }],
    )
    runcmd = local.run
  })]))

  # Without waiting: cloud-init has an end of its own to come to.
  run = [
    ["systemctl", "daemon-reload"],
    ["systemctl", "enable", "kubeopera-bootstrap.service"],
    ["systemctl", "start", "--no-block", "kubeopera-bootstrap.service"],
  ]

  # Of control planes that are set up from outside.
  placeholder_user_data = file("${path.module}/placeholder-user-data.sh")

  # What versions.env knows a cloud controller of.
  kubernetes_minors = [
    for minor in regexall("(?m)^CCM_VERSION_1_([0-9]+)=", file("${path.module}/bootstrap/versions.env")) : "1.${minor[0]}"
  ]
}
