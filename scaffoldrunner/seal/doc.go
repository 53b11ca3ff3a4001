// Package seal makes SealedSecrets in process, with upstream's own encryption.
//
// A Sealer decides for each secret whether the manifest in the tree can stay.
// Sealing the same value twice gives two texts, so that sealing without need
// would make a commit of every run; it is needed only when
//
//   - there is no manifest yet, or it is not what this package writes;
//   - the controller's certificate is another one;
//   - what the Secret is made of is: its keys, its type, its labels, the text
//     around passwords, the login at the registry;
//   - a rotation is asked for that the manifest has not been through.
//
// Passwords are made once. When a secret has to be sealed again, its passwords
// come from the live Secrets of the target; a database keeps the password that
// it was made with, so that a new one would lock everybody out.
//
// The annotations of a manifest hold the certificate's fingerprint and two
// digests under the caller's key: without the key they say nothing about the
// values, and nobody can test guesses.
//
// Plaintext is only in memory: it is in no error and in no annotation.
package seal
