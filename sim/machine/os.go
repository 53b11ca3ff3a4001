package machine

import "fmt"

// OS is the operating system that a machine looks like: what its files say, who
// logs in, and which package manager it has.
type OS string

// The systems. Ubuntu2404 is that of machines which say nothing.
const (
	Ubuntu2404      OS = "ubuntu-24.04"
	Ubuntu2204      OS = "ubuntu-22.04"
	Rocky9          OS = "rocky-9"
	AmazonLinux2023 OS = "amazon-linux-2023"
)

// system is what there is to know of an OS.
type system struct {
	release string // os-release
	user    string // who logs in on a fresh cloud image
	group   string // whose members may use sudo
	rpm     bool   // packages are RPMs, by dnf
	selinux string // its mode on a fresh image
}

func systems() map[OS]system {
	ubuntu := func(version, title, codename string) system {
		return system{user: "ubuntu", group: "sudo", release: fmt.Sprintf("PRETTY_NAME=\"Ubuntu %s LTS (light machine)\"\nNAME=\"Ubuntu\"\nVERSION_ID=\"%s\"\n"+
			"VERSION=\"%s LTS (%s)\"\nVERSION_CODENAME=%s\nID=ubuntu\nID_LIKE=debian\nUBUNTU_CODENAME=%s\n", version, version, version, title, codename, codename)}
	}
	return map[OS]system{
		Ubuntu2404: ubuntu("24.04", "Noble Numbat", "noble"),
		Ubuntu2204: ubuntu("22.04", "Jammy Jellyfish", "jammy"),
		Rocky9: {user: "rocky", group: "wheel", rpm: true, selinux: "enforcing", release: "NAME=\"Rocky Linux\"\nVERSION=\"9.6 (Blue Onyx)\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n" +
			"VERSION_ID=\"9.6\"\nPLATFORM_ID=\"platform:el9\"\nPRETTY_NAME=\"Rocky Linux 9.6 (light machine)\"\n"},
		AmazonLinux2023: {user: "ec2-user", group: "wheel", rpm: true, selinux: "permissive", release: "NAME=\"Amazon Linux\"\nVERSION=\"2023\"\nID=\"amzn\"\nID_LIKE=\"fedora\"\n" +
			"VERSION_ID=\"2023\"\nPLATFORM_ID=\"platform:al2023\"\nPRETTY_NAME=\"Amazon Linux 2023 (light machine)\"\n"},
	}
}

// system is what the machine's OS is.
func (m *Machine) system() system {
	if m.existing != nil {
		return systems()[m.existing.spec.OS]
	}
	return systems()[Ubuntu2404]
}
