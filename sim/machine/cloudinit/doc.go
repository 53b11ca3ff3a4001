// Package cloudinit is as much of cloud-init as user_data of this platform needs:
// a shell script, or #cloud-config with write_files, bootcmd and runcmd; either
// may be compressed with gzip.
//
// Parse is strict where cloud-init would only warn in a log that nobody reads:
// what it does not know is an error. Not there: MIME parts, includes, templates,
// merging, modules for users, disks, packages and the rest.
package cloudinit
