// Prints containerd's default seccomp profile for a process with containerd's default capabilities, as JSON.
package main

import (
	"encoding/json"
	"os"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func main() {
	capabilities := []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
		"CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
	}
	process := &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: capabilities}}
	profile := seccomp.DefaultProfile(&specs.Spec{Process: process})
	if err := json.NewEncoder(os.Stdout).Encode(profile); err != nil {
		panic(err)
	}
}
