"""The playground: a Transformer that the page itself computes, with a layer norm that the reader moves."""
