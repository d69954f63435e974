// Reads Kubernetes manifests into the types of the API, strictly: a field that no type has, or that
// is given twice, is an error. Files are arguments, "-" is standard input.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func read(name string, decoder runtime.Decoder) (int, error) {
	file := os.Stdin
	if name != "-" {
		opened, err := os.Open(name)
		if err != nil {
			return 0, err
		}
		defer opened.Close()
		file = opened
	}
	documents := yaml.NewYAMLReader(bufio.NewReader(file))
	count := 0
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, err
		}
		var content any
		if err := yaml.Unmarshal(text, &content); err == nil && content == nil {
			continue
		}
		object, kind, err := decoder.Decode(text, nil, nil)
		if err != nil {
			return count, fmt.Errorf("%s: document %d: %w", name, count+1, err)
		}
		count++
		fmt.Printf("%s: %s (%T)\n", name, kind.Kind, object)
	}
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	total := 0
	for _, name := range os.Args[1:] {
		count, err := read(name, decoder)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		total += count
	}
	if total == 0 {
		fmt.Fprintln(os.Stderr, "no object was read")
		os.Exit(1)
	}
}
