package terraformenv

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// tuple is a list of expressions.
func tuple(elements ...hclwrite.Tokens) hclwrite.Tokens { return hclwrite.TokensForTuple(elements) }

// element is the expression list[index].
func element(list, index hcl.Traversal) hclwrite.Tokens {
	tokens := hclwrite.TokensForTraversal(list)
	tokens = append(tokens, &hclwrite.Token{Type: hclsyntax.TokenOBrack, Bytes: []byte("[")})
	tokens = append(tokens, hclwrite.TokensForTraversal(index)...)
	return append(tokens, &hclwrite.Token{Type: hclsyntax.TokenCBrack, Bytes: []byte("]")})
}

// referenceMap is an object of references. Its keys are identifiers of ours.
func referenceMap(references map[string]hcl.Traversal) hclwrite.Tokens {
	var attributes []hclwrite.ObjectAttrTokens
	for _, key := range slices.Sorted(maps.Keys(references)) {
		attributes = append(attributes, hclwrite.ObjectAttrTokens{
			Name:  hclwrite.TokensForIdentifier(key),
			Value: hclwrite.TokensForTraversal(references[key]),
		})
	}
	return hclwrite.TokensForObject(attributes)
}

// apiURL is the template "https://${host}:6443".
func apiURL(host hcl.Traversal) hclwrite.Tokens {
	tokens := hclwrite.Tokens{
		{Type: hclsyntax.TokenOQuote, Bytes: []byte(`"`)},
		{Type: hclsyntax.TokenQuotedLit, Bytes: []byte("https://")},
		{Type: hclsyntax.TokenTemplateInterp, Bytes: []byte("${")},
	}
	tokens = append(tokens, hclwrite.TokensForTraversal(host)...)
	return append(
		tokens,
		&hclwrite.Token{Type: hclsyntax.TokenTemplateSeqEnd, Bytes: []byte("}")},
		&hclwrite.Token{Type: hclsyntax.TokenQuotedLit, Bytes: fmt.Appendf(nil, ":%d", apiPort)},
		&hclwrite.Token{Type: hclsyntax.TokenCQuote, Bytes: []byte(`"`)},
	)
}
