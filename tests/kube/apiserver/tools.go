//go:build tools

// Package apiserver pins the kube-apiserver that the tests build: this module and its go.sum say
// which sources, the published staging modules stand in for those that the repository carries.
package apiserver

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
