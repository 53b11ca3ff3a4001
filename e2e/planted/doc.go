// Package planted proves that the whole-platform tests see a secret which leaks: a
// terraform-runner that leaks in several ways makes them fail for each.
package planted
