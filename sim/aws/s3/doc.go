// Package s3 fakes S3 for one account in all regions.
//
// gofakes3 holds the objects, their versions and multipart uploads, and speaks
// that part of the protocol. Around it this package adds what Terraform's S3
// backend and a careful creator of buckets depend on: conditional writes and
// deletes that exclude each other, bucket names that other accounts hold,
// regions with their redirects and location constraints, bucket settings, the
// expected-owner check, chunked bodies with trailers, and checksums.
//
// The gateway has verified who calls before a request gets here. Bucket
// policies and ACLs are stored and given back, but not enforced.
package s3
