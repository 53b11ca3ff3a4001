package bench

import (
	"slices"
	"time"
)

// Samples are measured durations.
type Samples []time.Duration

// Percentile is the smallest sample that p percent of all do not exceed; 0
// without samples.
func (s Samples) Percentile(p float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := p / 100 * float64(len(sorted))
	i := int(rank)
	if float64(i) == rank { // the rank counts from 1
		i--
	}
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// Median is the middle sample.
func (s Samples) Median() time.Duration { return s.Percentile(50) }
