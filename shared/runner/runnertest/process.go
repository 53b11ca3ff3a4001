package runnertest

// NoExitSleep is a variable for the environment of programs that tests start: one
// that is built with the race detector, as the tests are, sleeps for a second before
// it ends otherwise.
const NoExitSleep = "GORACE=atexit_sleep_ms=0"
