// Prints containerd's default seccomp profile for a process with the capabilities named, as JSON.
package main

import (
	"encoding/json"
	"os"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func main() {
	capabilities := os.Args[1:]
	process := &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: capabilities}}
	profile := seccomp.DefaultProfile(&specs.Spec{Process: process})
	if err := json.NewEncoder(os.Stdout).Encode(profile); err != nil {
		panic(err)
	}
}
