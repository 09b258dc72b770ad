// Judge dashboards (a JSON list on standard input) by Grafana's own schema: unknown, missing and mistyped fields, of
// panels' options and queries as well. Prints a JSON list with what is wrong with each.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	var given []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	said := make([]string, len(given))
	for index, text := range given {
		var board dashboard.Dashboard
		err := board.UnmarshalJSONStrict(text)
		if err == nil {
			err = board.Validate()
		}
		if err != nil {
			said[index] = err.Error()
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(said)
}
