// Package guest is the program inside a light machine: its first process, and
// the stand-ins for what a machine here cannot have.
//
// One program is all of them: it is shown in the machine at Program, and links
// such as /usr/bin/systemctl and /usr/bin/kubeadm lead to it; the name by which
// it was called says what it is. Main, called first thing, thus takes over in a
// machine and returns at once anywhere else.
//
// What a stand-in cannot know or do itself (other machines, the cluster's etcd
// and API server) it asks the machine's host for, at Host: the simulator answers
// there, on the machine's own network.
package guest
