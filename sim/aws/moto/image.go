package moto

import (
	"encoding/json"
	"fmt"
	"os"
)

// image is a machine image, in the emulator's own form.
type image struct {
	ID             string `json:"ami_id"`
	Name           string `json:"name"`
	Description    string `json:"description"`
	OwnerID        string `json:"owner_id"`
	Architecture   string `json:"architecture"`
	State          string `json:"state"`
	Public         bool   `json:"public"`
	ImageLocation  string `json:"image_location"`
	ImageType      string `json:"image_type"`
	RootDeviceType string `json:"root_device_type"`
	RootDeviceName string `json:"root_device_name"`
	Virtualization string `json:"virtualization_type"`
	Hypervisor     string `json:"hypervisor"`
}

// images are the only ones that there are: the emulator's own are of 2017, and
// it would make all of them in each region that is used.
func images() []image {
	const canonical, amazon = "099720109477", "137112412989"
	list := []image{
		{ID: "ami-0a2204000000000a1", OwnerID: canonical, Architecture: "x86_64", Name: "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20260430", RootDeviceName: "/dev/sda1"},
		{ID: "ami-0a2204000000000a2", OwnerID: canonical, Architecture: "arm64", Name: "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-arm64-server-20260430", RootDeviceName: "/dev/sda1"},
		{ID: "ami-0a2404000000000a1", OwnerID: canonical, Architecture: "x86_64", Name: "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260430", RootDeviceName: "/dev/sda1"},
		{ID: "ami-0a2404000000000a2", OwnerID: canonical, Architecture: "arm64", Name: "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-20260430", RootDeviceName: "/dev/sda1"},
		{ID: "ami-0a2023000000000a1", OwnerID: amazon, Architecture: "x86_64", Name: "al2023-ami-2023.11.20260427.1-kernel-6.1-x86_64", RootDeviceName: "/dev/xvda"},
		{ID: "ami-0a2023000000000a2", OwnerID: amazon, Architecture: "arm64", Name: "al2023-ami-2023.11.20260427.1-kernel-6.1-arm64", RootDeviceName: "/dev/xvda"},
	}
	for i := range list {
		m := &list[i]
		m.Description, m.ImageLocation = m.Name, m.OwnerID+"/"+m.Name
		m.State, m.Public, m.ImageType = "available", true, "machine"
		m.RootDeviceType, m.Virtualization, m.Hypervisor = "ebs", "hvm", "xen"
	}
	return list
}

// writeImages writes the file from which the emulator takes its images.
func writeImages(path string) error {
	data, err := json.MarshalIndent(images(), "", "  ")
	if err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	return nil
}
