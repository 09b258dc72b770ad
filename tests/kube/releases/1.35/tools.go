//go:build tools

// Package kubernetes pins the programs of a release that the tests build: this module and its go.sum say which
// sources, the published staging modules stand in for those that the repository carries.
package kubernetes

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kubeadm"
)
