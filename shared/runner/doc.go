// Package runner is what the runners of all kinds of runs have in common: how a
// run goes from phase to phase and what is known of it meanwhile, what ends it
// early, how its result is published, and what a command of a runner is.
//
// A Run is interrupted at most once: by a signal, by its own deadline, or by
// whatever else the runner watches. The packages below this one each have one part:
// publish the outputs Secret, runlog the log, pidone process 1, git the git
// binary, awsconfig and ekstoken the AWS credential.
//
// What a run does, and what its failures mean, is for each runner to say.
package runner
