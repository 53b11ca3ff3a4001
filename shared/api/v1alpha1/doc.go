// Package v1alpha1 is the environment file of the node provisioner library:
// machines, and what is installed on them. Its JSON names are those of
// holodeck.nvidia.com/v1alpha1, so that files written for holodeck keep their
// meaning.
//
// A file passes three steps: Decode (strict: whatever it does not know is an
// error), Environment.SetDefaults (the one place of defaults) and
// Environment.Validate (all rules). Environment.Warnings then says which fields
// are deprecated or have no effect. Decode and Validate report every wrong field
// by its path, as FieldErrors; neither repeats a refused value. Paths have their
// keys as people write them: spec.kubernetes.installer, although holodeck's JSON
// name is Installer.
//
// Values that pass Validate are harmless by their characters. Who puts them into
// a script quotes them all the same.
package v1alpha1
