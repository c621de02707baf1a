// A block memory of a Tilewright machine. Take one of the files ${prefix}memory_….sv; all have this module.
//
// One write port, one read port, one clock. read_data is the word of the cycle before in which read_enable was set, and
// stays until the next such cycle. A word that is written in the cycle in which it is read may read as anything: no
// program that the checker accepts does that. No reset: what a word holds before its first write does not count.
//
// This file: SRAM macros. Write the modules …sram_DEPTHxWIDTH, each around the macros of your process, or replace them
// here. A size without a place is an error of elaboration.
module ${prefix}memory #(
  parameter int WIDTH = 8,
  parameter int DEPTH = 2
) (
  input  logic                     clk,
  input  logic                     write_enable,
  input  logic [$$clog2(DEPTH)-1:0] write_address,
  input  logic [WIDTH-1:0]         write_data,
  input  logic                     read_enable,
  input  logic [$$clog2(DEPTH)-1:0] read_address,
  output logic [WIDTH-1:0]         read_data
);
  generate
${macros}    if (!(${known})) begin : no_macro
      $$error("no macro of this size");
    end
  endgenerate
endmodule
