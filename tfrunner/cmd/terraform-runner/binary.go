package main

import (
	"fmt"
	"os/exec"
)

// terraformBinary finds Terraform.
func terraformBinary(getenv func(string) string) (string, error) {
	name := getenv("TERRAFORM_BINARY")
	if name == "" {
		name = "terraform"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find the terraform binary: %w", err)
	}
	return path, nil
}
