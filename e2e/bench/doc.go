// Package bench has what the benchmarks of the platform have in common: a load
// that keeps its rate, samples, and the table that they print. The benchmarks are
// in the folders below, by what they need:
//
//   - reads: one service with its database and an API server. Status reads,
//     memory, and the time from a request to its Job.
//   - runs: the whole simulator. What a run costs over bare Terraform, how long it
//     takes to cancel one, and what of a scaffolding run is the repository's.
//   - scaffold: this process alone. How an environment's tree is generated, sealed
//     and verified, and sealing against upstream's program.
//   - machines: this process and a simulated Session Manager. Clusters of one
//     machine and of many, and a session against a plain tunnel.
//
// `make bench` runs them, and docs/benchmarks.md keeps what they printed. Nothing
// here fails because it was slow.
package bench
