package seal

import (
	"crypto/rand"
	"encoding/json"
	"math/big"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
)

// alphabet has nothing that a URL, a shell, YAML or a connection string takes
// for anything but itself.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// passwordLength gives 32·log2(62) = 190 bits.
const passwordLength = 32

// Password makes a password of 32 letters and digits.
func Password() string {
	size := big.NewInt(int64(len(alphabet)))
	password := make([]byte, passwordLength)
	for i := range password {
		n, err := rand.Int(rand.Reader, size)
		if err != nil {
			panic(err) // crypto/rand does not fail
		}
		password[i] = alphabet[n.Int64()]
	}
	return string(password)
}

// dockerConfig is the value of .dockerconfigjson: one login.
func dockerConfig(registry gitopsenv.Registry, password string) ([]byte, error) {
	type login struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Auth     []byte `json:"auth"` // base64 of username:password
	}
	return json.Marshal(map[string]any{"auths": map[string]any{
		registry.Server: login{registry.Username, password, []byte(registry.Username + ":" + password)},
	}})
}
