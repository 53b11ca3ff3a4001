# Rendered by cluster-provisioner, again for every run: changes made here are lost.

terraform {
  backend "s3" {
    bucket       = "kubeopera-terraform-state-internal-acme-production-in-the-far-we"
    key          = "terraform.tfstate"
    encrypt      = true
    use_lockfile = true
  }
}
