// Package script renders the scripts that the node provisioner runs on machines:
// one Step per component and per move of a cluster's life.
//
// A step's Body is bash: the values that Go chose, quoted one and all by Quote;
// functions from the .sh files of this package; and a function main, called on the
// last line, which ends with exit. It can thus be run as a file or through
// `bash -s`, with its standard input behind it. Bodies hold no secret: secrets come
// on standard input, from Step.Stdin, and stay in variables and in files that only
// root may read and that go with the step. Equal environments give equal bodies.
//
// A step first looks whether the machine is as it should be, and then changes
// nothing. It finds out the operating system itself. Versions that were asked for
// are the versions that are installed, or the step fails; what is downloaded has a
// signature by a known key or a known sum, see settings.sh, where a machine's
// administrator may put other values than ours by /etc/kubeopera/bootstrap.override.
//
// Environments are read as SetDefaults leaves them. Errors of the functions here say which value cannot be rendered, or what is not
// implemented (ErrUnsupported). Exit codes of scripts are the Exit constants. All
// that a script says is on standard error, except for the result of a Query; a
// command that failed is told as "kubeopera: line N: command failed with status M".
//
// Which steps run where and in which order is the caller's business, and so is
// running them.
package script
