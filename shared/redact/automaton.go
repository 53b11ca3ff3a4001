package redact

import (
	"maps"
	"slices"
)

// automaton finds all of its patterns in one pass (Aho and Corasick): a trie
// whose nodes also point to the node of their longest proper suffix. Children
// are a linked list, since all but the first few nodes have one child and a
// table for each would take a kilobyte.
type automaton struct {
	nodes []node
	root  [256]int // the root's children, the table that nearly every byte needs
}

type node struct {
	suffix  int  // node of the longest proper suffix in the trie
	child   int  // first child, 0 for none
	sibling int  // next child of the same parent, 0 for none
	depth   int  // length of the node's text
	match   int  // length of the longest pattern that ends here, 0 for none
	label   byte // last byte of the node's text
}

func newAutomaton(patterns map[string]bool) *automaton {
	a := &automaton{nodes: make([]node, 1)}
	for _, p := range slices.Sorted(maps.Keys(patterns)) {
		at := 0
		for i := range len(p) {
			at = a.grow(at, p[i])
		}
		a.nodes[at].match = len(p)
	}
	// Breadth first: the suffix of a node is shorter and so already linked.
	var queue []int
	for _, n := range a.root {
		if n != 0 {
			queue = append(queue, n)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for c := a.nodes[at].child; c != 0; c = a.nodes[c].sibling {
			n := &a.nodes[c]
			n.suffix = a.next(a.nodes[at].suffix, n.label)
			// A pattern that ends in the suffix ends here too; a longer one of
			// this node covers it.
			n.match = max(n.match, a.nodes[n.suffix].match)
			queue = append(queue, c)
		}
	}
	return a
}

// grow is the child of at for b, made if there is none.
func (a *automaton) grow(at int, b byte) int {
	if c := a.find(at, b); c != 0 {
		return c
	}
	c := len(a.nodes)
	n := node{depth: a.nodes[at].depth + 1, label: b}
	if at == 0 {
		a.root[b] = c
	} else {
		n.sibling = a.nodes[at].child
		a.nodes[at].child = c
	}
	a.nodes = append(a.nodes, n)
	return c
}

func (a *automaton) find(at int, b byte) int {
	if at == 0 {
		return a.root[b]
	}
	for c := a.nodes[at].child; c != 0; c = a.nodes[c].sibling {
		if a.nodes[c].label == b {
			return c
		}
	}
	return 0
}

// next is the node after reading b: its text is the longest end of all that was
// read that begins a pattern.
func (a *automaton) next(at int, b byte) int {
	for {
		if c := a.find(at, b); c != 0 || at == 0 {
			return c
		}
		at = a.nodes[at].suffix
	}
}
