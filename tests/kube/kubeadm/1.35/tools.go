//go:build tools

// Package kubeadm pins the kubeadm that the tests build: this module and its go.sum say which sources,
// the published staging modules stand in for those that the repository carries.
package kubeadm

import _ "k8s.io/kubernetes/cmd/kubeadm"
