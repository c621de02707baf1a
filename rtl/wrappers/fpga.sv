// A block memory of a Tilewright machine. Take one of the files ${prefix}memory_….sv; all have this module.
//
// One write port, one read port, one clock. read_data is the word of the cycle before in which read_enable was set, and
// stays until the next such cycle. A word that is written in the cycle in which it is read may read as anything: no
// program that the checker accepts does that. No reset: what a word holds before its first write does not count.
//
// This file: block RAM. The attributes are those of Vivado and Yosys, of Quartus, and of Diamond and Radiant.
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
  (* ram_style = "block", no_rw_check = 1, ramstyle = "no_rw_check", syn_ramstyle = "block_ram,no_rw_check" *)
  logic [WIDTH-1:0] words [DEPTH-1:0];
  integer row;
  initial for (row = 0; row < DEPTH; row = row + 1) words[row] = '0;

  always @(posedge clk) if (write_enable) words[write_address] <= write_data;
  always @(posedge clk) if (read_enable) read_data <= words[read_address];
endmodule
