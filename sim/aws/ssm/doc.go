// Package ssm fakes Parameter Store, the part of AWS Systems Manager that keeps
// named values: types, tiers and their sizes, versions, labels, overwriting,
// tags, filters, and the call rates beyond which it throttles.
//
// A value of type SecureString is readable only by a call that asks for
// decryption; others get a blob that tells nothing. Public parameters
// (/aws/service/…) and the operations of Systems Manager that are not Parameter
// Store's are left to a fallback.
//
// Who may do what is decided by an Authorizer; without one, every caller may do
// everything.
package ssm
