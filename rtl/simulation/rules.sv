// The rules of AXI4 and AXI4-Lite (ARM IHI 0022) that the machine must keep, whatever the bus does. They are bound to
// the machine in every simulation; the first that is broken ends it.

// verilator coverage_off
// verilator tracing_off

// A manager, of a bus of BYTES, whose bursts have at most BEATS.
module tilewright_manager_rules #(
    parameter int ID_BITS = 1,
    parameter int BYTES = 8,
    parameter int BEATS = 16
) (
    input clk,
    input rst,
    input restart,  // the host resets the machine, and has to reset the bus after it
    input arvalid, input arready, input [ID_BITS-1:0] arid, input [63:0] araddr, input [7:0] arlen,
    input [2:0] arsize, input [1:0] arburst, input [3:0] arcache, input [2:0] arprot,
    input awvalid, input awready, input [ID_BITS-1:0] awid, input [63:0] awaddr, input [7:0] awlen,
    input [2:0] awsize, input [1:0] awburst, input [3:0] awcache, input [2:0] awprot,
    input wvalid, input wready, input [8*BYTES-1:0] wdata, input [BYTES-1:0] wstrb, input wlast,
    input bready
);
    localparam int PAGE = 4096, OPEN = 256, REQUEST = ID_BITS + 64 + 8 + 3 + 2 + 4 + 3;

    bit was_reset, ar_waits, aw_waits, w_waits;
    bit [REQUEST-1:0] ar_before, aw_before;
    bit [9*BYTES:0] w_before;
    wire [REQUEST-1:0] ar = {arid, araddr, arlen, arsize, arburst, arcache, arprot};
    wire [REQUEST-1:0] aw = {awid, awaddr, awlen, awsize, awburst, awcache, awprot};
    wire [9*BYTES:0] w = {wdata, wstrb, wlast};

    // Bursts asked for and bursts sent since the reset, of which either may be ahead.
    int asked[OPEN], sent[OPEN];
    int asks, sends, compared, beats;

    function automatic void broken(string rule);
        $display("AXI: %m: %s", rule);
        $fatal(1);
    endfunction

    function automatic bit fits(bit [63:0] address, bit [7:0] last, bit [2:0] size, bit [1:0] burst);
        int first = int'(address[11:0]) / BYTES * BYTES;
        return burst == 2'b01 && 1 << size == BYTES && int'(last) < BEATS && first + (int'(last) + 1) * BYTES <= PAGE;
    endfunction

    always @(posedge clk) begin
        was_reset <= rst;
        if (rst || restart) begin
            if (was_reset && (arvalid || awvalid || wvalid)) broken("something is valid during a reset");
            {ar_waits, aw_waits, w_waits} <= '0;
            asks = 0;
            sends = 0;
            compared = 0;
            beats = 0;
        end else begin
            if (ar_waits && !(arvalid && ar == ar_before)) broken("AR does not stay as it is until it is ready");
            if (aw_waits && !(awvalid && aw == aw_before)) broken("AW does not stay as it is until it is ready");
            if (w_waits && !(wvalid && w == w_before)) broken("W does not stay as it is until it is ready");
            ar_waits <= arvalid && !arready;
            aw_waits <= awvalid && !awready;
            w_waits <= wvalid && !wready;
            ar_before <= ar;
            aw_before <= aw;
            w_before <= w;
            if (arvalid && !fits(araddr, arlen, arsize, arburst)) broken("a read is no burst of whole beats in a page");
            if (awvalid && !fits(awaddr, awlen, awsize, awburst)) broken("a write is no burst of whole beats in a page");
            if (awvalid && awready) begin
                asked[asks % OPEN] = int'(awlen) + 1;
                asks++;
            end
            if (wvalid && wready) begin
                beats++;
                if (beats > BEATS) broken("WLAST does not come");
                if (wlast) begin
                    sent[sends % OPEN] = beats;
                    sends++;
                    beats = 0;
                end
            end
            if (compared < asks && compared < sends) begin
                if (asked[compared % OPEN] != sent[compared % OPEN]) broken("a burst has more or fewer beats than AWLEN says");
                compared++;
            end
            if (!bready) broken("BREADY is low");
        end
    end
endmodule

// A subordinate of AXI4-Lite that takes one read and one write at a time.
module tilewright_subordinate_rules (
    input clk,
    input rst,
    input awvalid, input awready, input wvalid, input wready,
    input bvalid, input bready, input [1:0] bresp,
    input arvalid, input arready,
    input rvalid, input rready, input [1:0] rresp, input [31:0] rdata
);
    bit was_reset, b_waits, r_waits;
    bit [1:0] b_before;
    bit [33:0] r_before;
    int addresses, words, reads;  // taken, and not answered yet

    function automatic void broken(string rule);
        $display("AXI4-Lite: %m: %s", rule);
        $fatal(1);
    endfunction

    always @(posedge clk) begin
        was_reset <= rst;
        if (rst) begin
            if (was_reset && (bvalid || rvalid)) broken("something is valid during a reset");
            {b_waits, r_waits} <= '0;
            addresses = 0;
            words = 0;
            reads = 0;
        end else begin
            if (b_waits && !(bvalid && bresp == b_before)) broken("B does not stay as it is until it is ready");
            if (r_waits && !(rvalid && {rresp, rdata} == r_before)) broken("R does not stay as it is until it is ready");
            b_waits <= bvalid && !bready;
            r_waits <= rvalid && !rready;
            b_before <= bresp;
            r_before <= {rresp, rdata};
            if (bvalid && (addresses == 0 || words == 0)) broken("a response to no write");
            if (rvalid && reads == 0) broken("a response to no read");
            if (bvalid && bready) begin
                addresses--;
                words--;
            end
            if (rvalid && rready) reads--;
            if (awvalid && awready) addresses++;
            if (wvalid && wready) words++;
            if (arvalid && arready) reads++;
            if (addresses > 1 || words > 1 || reads > 1) broken("a second access is taken before the first is answered");
        end
    end
endmodule
