// Package storetest says how a runs.Store behaves, as a test suite that every
// implementation passes.
package storetest
