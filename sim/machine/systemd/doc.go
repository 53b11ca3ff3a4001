// Package systemd stands in for systemd, journald and their commands on a light
// machine: unit files are read as systemd reads them and what they say is run.
//
// Manager is the supervisor. It knows services (Type, ExecStart and its kin,
// Restart, RestartSec, start limits, timeouts, conditions, environment files),
// timers (OnBootSec, OnActiveSec, OnUnitActiveSec, OnUnitInactiveSec, and of
// OnCalendar the words hourly to yearly), drop-ins, templates, dependencies
// (Wants, Requires, After, OnFailure) and what enable makes of [Install].
//
// Manager.Systemctl is the command systemctl; Serve offers it on a socket to the
// processes of the machine. Journal is the log, and the command journalctl.
//
// Not there: cgroups (a service is a process group), users, sandboxing and
// resource settings, sockets, paths, mounts, D-Bus, notification (Type=notify is
// active once started).
package systemd
