"""Connected subgraphs for network reliability, drawn by cluster popping."""
