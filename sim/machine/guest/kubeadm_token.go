package guest

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// certificatesLife is how long uploaded certificates stay.
const certificatesLife = 2 * time.Hour

func newToken() string {
	text := strings.ToLower(rand.Text())
	return text[:6] + "." + text[6:22]
}

// token is `kubeadm token`. Tokens are Secrets, which the real API server reads
// and the real token cleaner removes.
func (k *kubeadmCall) token(ctx context.Context, words []string) error {
	if words[0] == "generate" {
		k.io.printf("%s\n", newToken())
		return nil
	}
	kube, err := localClient(k.flag("kubeconfig", adminConf), "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	switch words[0] {
	case "create":
		token := newToken()
		if len(words) > 1 {
			token = words[1]
		}
		if err := createToken(ctx, kube, token, span(k.flag("ttl", ""), 24*time.Hour), k.flag("description", "")); err != nil {
			return err
		}
		k.io.printf("%s\n", token)
		return nil
	case "list":
		secrets, err := kube.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken)})
		if err != nil {
			return err
		}
		k.io.printf("TOKEN                     TTL         EXPIRES                USAGES                   DESCRIPTION\n")
		for _, s := range secrets.Items {
			expires := string(s.Data["expiration"])
			left := "<forever>"
			if at, err := time.Parse(time.RFC3339, expires); err == nil {
				left = time.Until(at).Round(time.Minute).String()
			}
			k.io.printf("%s.%s   %s   %s   authentication,signing   %s\n", s.Data["token-id"], s.Data["token-secret"], left, expires, s.Data["description"])
		}
		return nil
	case "delete":
		for _, token := range words[1:] {
			id, _, _ := strings.Cut(token, ".")
			if err := kube.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, "bootstrap-token-"+id, metav1.DeleteOptions{}); err != nil {
				return fmt.Errorf("failed to delete bootstrap token %q: %w", id, err)
			}
			k.io.printf("bootstrap token %q deleted\n", id)
		}
		return nil
	}
	return fmt.Errorf("the light machine does not have kubeadm token %s", words[0])
}

func createToken(ctx context.Context, kube kubernetes.Interface, token string, life time.Duration, description string) error {
	parts := tokenPattern.FindStringSubmatch(token)
	if parts == nil {
		return fmt.Errorf("the bootstrap token %q was not of the form %q", token, tokenPattern)
	}
	return putSecret(ctx, kube, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + parts[1]},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": parts[1], "token-secret": parts[2], "description": description,
			"expiration":                     time.Now().Add(life).UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
			"auth-extra-groups": tokenGroup,
		},
	})
}

func newCertificateKey() (string, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return "", err
	}
	return hex.EncodeToString(key), nil
}

// uploadCertsPhase is `kubeadm init phase upload-certs`.
func (k *kubeadmCall) uploadCertsPhase(ctx context.Context) error {
	if k.flag("upload-certs", "") == "" {
		k.io.printf("[upload-certs] Skipping phase. Please see --upload-certs\n")
		return nil
	}
	kube, err := localClient(k.flag("kubeconfig", adminConf), "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := k.uploadCerts(ctx, kube, k.config.init.CertificateKey); err != nil {
		return fmt.Errorf("error execution phase upload-certs: error uploading certs: %w", err)
	}
	return nil
}

// uploadCerts stores the shared keys, encrypted, in a Secret that is owned by a
// token of two hours: the token cleaner removes that, the garbage collector this.
func (k *kubeadmCall) uploadCerts(ctx context.Context, kube kubernetes.Interface, key string) error {
	if key == "" {
		var err error
		if key, err = newCertificateKey(); err != nil {
			return err
		}
	}
	cipher, err := cipherOf(key)
	if err != nil {
		return err
	}
	owner := newToken()
	if err := createToken(ctx, kube, owner, certificatesLife, "Proxy for managing TTL for the kubeadm-certs secret"); err != nil {
		return err
	}
	token, err := kube.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, "bootstrap-token-"+owner[:6], metav1.GetOptions{})
	if err != nil {
		return err
	}
	data := map[string][]byte{}
	for _, name := range sharedFiles() {
		content, err := os.ReadFile(pkiDir + "/" + name)
		if err != nil {
			return err
		}
		nonce := make([]byte, cipher.NonceSize())
		if _, err := rand.Read(nonce); err != nil {
			return err
		}
		data[secretKey(name)] = cipher.Seal(nonce, nonce, content, nil)
	}
	if err := putSecret(ctx, kube, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm-certs", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Secret", Name: token.Name, UID: token.UID, BlockOwnerDeletion: new(true), Controller: new(true),
		}}},
		Data: data,
	}); err != nil {
		return err
	}
	k.io.printf("[upload-certs] Storing the certificates in Secret \"kubeadm-certs\" in the \"kube-system\" Namespace\n")
	if k.flag("skip-certificate-key-print", "") == "" {
		k.io.printf("[upload-certs] Using certificate key:\n%s\n", key)
	}
	return putReader(ctx, kube, metav1.NamespaceSystem, "kubeadm:kubeadm-certs", "secrets", "kubeadm-certs", groups(tokenGroup))
}

// downloadCerts is what a joining control plane does with the key.
func downloadCerts(ctx context.Context, kube kubernetes.Interface, key string) error {
	secret, err := kube.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, "kubeadm-certs", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errors.New(`error downloading the secret: Secret "kubeadm-certs" was not found in the "kube-system" Namespace. This Secret might have expired. ` +
			"Please, run `kubeadm init phase upload-certs --upload-certs` on a control plane to generate a new one")
	}
	if err != nil {
		return fmt.Errorf("error downloading the secret: %w", err)
	}
	cipher, err := cipherOf(key)
	if err != nil {
		return fmt.Errorf("error decoding certificate key: %w", err)
	}
	for _, name := range sharedFiles() {
		sealed := secret.Data[secretKey(name)]
		if len(sealed) < cipher.NonceSize() {
			return fmt.Errorf("couldn't find expected key %q in secret", secretKey(name))
		}
		content, err := cipher.Open(nil, sealed[:cipher.NonceSize()], sealed[cipher.NonceSize():], nil)
		if err != nil {
			return fmt.Errorf("error decoding secret data with provided key: %w", err)
		}
		if err := writeFile(pkiDir+"/"+name, string(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func cipherOf(key string) (cipher.AEAD, error) {
	raw, err := hex.DecodeString(key)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// secretKey is a file's name in the Secret.
func secretKey(name string) string {
	if after, ok := strings.CutPrefix(name, "etcd/"); ok {
		return "etcd-" + after
	}
	if !slices.Contains(sharedFiles(), name) {
		return ""
	}
	return name
}
