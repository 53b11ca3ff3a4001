// Package machines measures the library that makes clusters of machines: how long
// that takes for one machine and for many, and what Session Manager costs over a
// plain TCP tunnel.
package machines
