// Package moto runs a moto server, the emulator behind the gateway, as a child
// process of this one.
//
// The server is the one found on PATH, else one in a virtual environment that
// is made once below the cache directory. It dies with this process. It checks
// no signatures and keeps everything in memory; who may call it is the
// gateway's business.
package moto
