package git

import (
	"crypto/subtle"

	"golang.org/x/crypto/ssh"
)

// Grant lets somebody use a repository: by password over HTTPS, or by key over SSH.
type Grant struct {
	// Username is compared unless it is empty: hosters accept a token under any name.
	Username string
	// Password is a password or a token; empty: no access over HTTPS.
	Password string
	// Key is the public key of one who comes over SSH; nil: no access over SSH.
	Key ssh.PublicKey
	// ReadOnly refuses pushes.
	ReadOnly bool
}

// Allow gives access. From then on nobody has any without.
func (r *Repository) Allow(grant Grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants = append(r.grants, grant)
}

// Revoke takes all access away: everybody is refused from now on.
func (r *Repository) Revoke() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants = []Grant{}
}

// open tells whether everybody may read.
func (r *Repository) open() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grants == nil
}

// byPassword is the grant of one who comes with a password. Of several the first
// that may write counts.
func (r *Repository) byPassword(username, password string) (Grant, bool) {
	return r.grant(func(g Grant) bool {
		return g.Password != "" && subtle.ConstantTimeCompare([]byte(g.Password), []byte(password)) == 1 &&
			(g.Username == "" || g.Username == username)
	})
}

// byKey is the grant of one who has authenticated with a key.
func (r *Repository) byKey(key string) (Grant, bool) {
	return r.grant(func(g Grant) bool { return g.Key != nil && string(g.Key.Marshal()) == key })
}

func (r *Repository) grant(matches func(Grant) bool) (found Grant, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.grants {
		if matches(g) && (!ok || found.ReadOnly) {
			found, ok = g, true
		}
	}
	return found, ok
}
