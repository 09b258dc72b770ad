//go:build tools

// Package tools names the program that the tests build from this module.
package tools

import _ "github.com/rhysd/actionlint/cmd/actionlint"
