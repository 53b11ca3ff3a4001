// Package scaffold measures how an environment's tree is made, in this process and
// without a cluster: generated, sealed and verified, and sealing against upstream's
// own program.
package scaffold
