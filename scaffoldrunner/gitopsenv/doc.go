// Package gitopsenv generates the Flux tree of an environment.
//
// Generating is a pure function from a base tree, inputs and a sealer to a tree;
// reading, committing and pushing are the caller's. There are two passes, since
// a secret can be sealed only for a controller that runs: Infrastructure writes
// what brings the controller, Complete everything.
//
//	clusters/<environment>/flux-system/gotk-sync.yaml   the layers, and their order
//	clusters/<environment>/infrastructure/              a copy, but for external-dns
//	clusters/<environment>/database/                    a copy with secrets of its own
//	clusters/<environment>/cert-manager-config/         a copy with another e-mail address
//	clusters/<environment>/apps/                        the list of services, and their secrets
//	apps/<service>/overlays/<environment>/              hostnames and registry, over ../../base
//
// The base is clusters/development and apps/*/base of the target repository
// where it has them, and else a tree that the caller gives. Nothing in it is
// ever changed. What the environment already has stays, unless it is generated
// and would be generated otherwise now; nothing is deleted but overlays of
// services that are no longer wanted, and sealed secrets that the base no longer
// has. The same inputs give the same bytes.
//
// Which secrets an environment needs is read from those of the development
// tree: see Secret. Whether the result is what was meant is for package verify
// to say.
package gitopsenv
