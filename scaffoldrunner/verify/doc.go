// Package verify says whether a generated environment is what was meant, before
// it is pushed.
//
// A build that succeeds proves little: kustomize drops a patch whose target
// matches nothing, and a copied tree brings along whatever the original had. So
// the layers are rendered as Flux would render them, and what comes out is held
// against the inputs, against the tree before, and against all that the
// development tree has of its own: credentials, hostnames, account ids. No
// message repeats a credential.
package verify
