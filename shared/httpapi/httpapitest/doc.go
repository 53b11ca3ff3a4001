// Package httpapitest tests services that are built on package httpapi. Random
// sends requests that it makes from a service's own OpenAPI document.
package httpapitest
