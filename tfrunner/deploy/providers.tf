# The providers of the runner image's mirror. terraform.lock.hcl beside this file
# holds their checksums; after a change here, write it anew:
#   terraform providers lock -platform=linux_amd64
terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "5.100.0"
    }
  }
}
