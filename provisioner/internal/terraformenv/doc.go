// Package terraformenv renders a Terraform environment: the root module that
// wires the platform's modules together for one cluster.
//
// The files are built as a syntax tree from typed values, never from text, so
// that no value can be anything but a string, number or boolean where it was put.
// Rendering is pure and deterministic, and the result is what terraform fmt would
// make of it. It holds no secret and nothing of a particular run: a second run of
// the same environment plans no change.
//
// The package does not judge its input beyond what keeps the output well-formed;
// whether a region exists or a range is allowed is decided at the door.
package terraformenv
