// Package suggest finds the name that was meant by a mistyped one.
package suggest

import "strings"

// Nearest is the known name that is nearest to a mistyped one, empty if none is
// near. Case and separators do not count, and up to a third of the letters may
// differ: more would suggest at random.
func Nearest(name string, known []string) string {
	if name == "" || len(name) > 64 {
		return ""
	}
	best, limit := "", len(name)/3+1
	for _, k := range known {
		if d := distance(plain(name), plain(k)); d < limit {
			best, limit = k, d
		}
	}
	return best
}

// plain makes workerCount, worker-count and worker_count the same.
func plain(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name))
}

// distance counts the letters to insert, delete, change or swap with their
// neighbour to make b of a (optimal string alignment).
func distance(a, b string) int {
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			change := previous[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			current[j] = min(previous[j]+1, current[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}
