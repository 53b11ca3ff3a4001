package runcontract

// The rendered environment's interface: a service writes these names, a runner
// reads them.
const (
	// VariablePrincipal takes the ARN of the IAM role or user whose credential
	// the run uses (eks).
	VariablePrincipal = "credential_principal_arn"

	// Outputs of eks.
	OutputClusterName          = "cluster_name"
	OutputClusterEndpoint      = "cluster_endpoint"
	OutputClusterCACertificate = "cluster_ca_certificate" // PEM, in base64

	// Outputs of vanilla_kubeadm.
	OutputAPIEndpointInternal     = "api_endpoint_internal"
	OutputAPIEndpointPublic       = "api_endpoint_public" // empty: none
	OutputParameterPrefix         = "parameter_prefix"
	OutputControlPlaneCount       = "control_plane_count"
	OutputControlPlaneInstanceIDs = "control_plane_instance_ids" // by index
)
