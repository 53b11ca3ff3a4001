package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group, version and kind of an environment file.
const (
	GroupName  = "holodeck.nvidia.com"
	Version    = "v1alpha1"
	APIVersion = GroupName + "/" + Version
	Kind       = "Environment"
)

// GroupVersion is APIVersion for a scheme.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: Version}

// AddToScheme registers the types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Environment{}, &EnvironmentList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
