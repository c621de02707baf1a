"""LSTM, GRU and RNN nodes of a float network, written out as steps in operators that quantise."""
