//go:build tools

// Package chart_sources pins the helm that the tests may build, and Kueue, whose module has its chart and
// its definitions: this module and its go.sum say which sources.
package chart_sources

import (
	_ "helm.sh/helm/v4/cmd/helm"
	_ "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)
