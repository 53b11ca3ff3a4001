# Rendered by cluster-provisioner, again for every run: changes made here are lost.

terraform {
  backend "s3" {
    bucket       = "kubeopera-terraform-state-acme-prod"
    key          = "terraform.tfstate"
    encrypt      = true
    use_lockfile = true
  }
}
