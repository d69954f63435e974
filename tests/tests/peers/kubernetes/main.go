// The API server and the kubelet of Kubernetes in one program, for `make test-kubernetes`.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	which := os.Args[1]
	os.Args = append([]string{which}, os.Args[2:]...)
	if which == "apiserver" {
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	}
	os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
}
