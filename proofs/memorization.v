(* Page 18, page one_layer_memorization/memorization: the exact network.
   memorize.exact-labels, memorize.knots, memorize.width, memorize.block, memorize.bits.
   R is any ordered field; softmax stands for weights phi(score) / sum of phi(scores), any phi. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
Require Import definitions identities.
Require four_questions.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---- Theorem 18.1 (Exact labels) ---- *)
Section ExactLabels.
Variables (R : realFieldType) (D c : nat).
Variables (t b : 'I_D -> R).             (* ids t_1 < ... < t_D and knots b_1, ..., b_D *)

(* (18.2): F(t) is the sum of the a_j relu(t - b_j); row j of the matrix a is a_j. *)
Definition network (a : 'M[R]_(D, c)) (x : R) : 'rV_c := \sum_j relu (x - b j) *: row j a.

(* Theorem 18.1. b_j < t_j, and b_j >= t_i for every earlier id t_i (so b_j >= t_(j-1)):
   exactly one choice of a_1, ..., a_D takes each id to its label. *)
Theorem exact_labels (y : 'M[R]_(D, c)) :
  (forall j, b j < t j) -> (forall i j : 'I_D, (i < j)%N -> t i <= b j) ->
  exists! a, forall j, network a (t j) = row j y.
Proof.
move=> below above.
(* Unit j at id i; the equations are M a = y. *)
pose M := \matrix_(i, j) relu (t i - b j) : 'M[R]_D.
(* M is triangular with the positive diagonal t_j - b_j. *)
have MU : M \in unitmx.
  have trig : is_trig_mx M by apply/is_trig_mxP=> i j ij; rewrite mxE relu_neg // subr_le0 above.
  rewrite unitmxE (det_trig trig) unitfE; apply/prodf_neq0 => i _.
  by rewrite mxE relu_pos ?subr_ge0 ?ltW // lt0r_neq0 // subr_gt0.
have eqM a i : network a (t i) = row i (M *m a).
  by rewrite row_mul mulmx_sum_row; apply: eq_bigr => j _; rewrite !mxE.
(* So there is one solution, and no other. *)
exists (invmx M *m y); split=> [j|a fit]; first by rewrite eqM mulKVmx.
suff <- : M *m a = y by rewrite mulKmx.
by apply/row_matrixP => i; rewrite -eqM fit.
Qed.
End ExactLabels.
(* An instance (Example 18.2): ids 1, 2, 4 and knots 0, 1, 2. *)
Fact labels_instance (R : realFieldType) (t := fun j : 'I_3 => (nth 0 [:: 1; 2; 4] j)%N%:R : R)
  (b := fun j : 'I_3 => (nth 0 [:: 0; 1; 2] j)%N%:R : R) :
  (forall j, b j < t j) /\ (forall i j : 'I_3, (i < j)%N -> t i <= b j).
Proof.
split=> [[[|[|[|//]]] j3]|[[|[|[|//]]] i3] [[|[|[|//]]] j3] //= _];
  by rewrite /b /t /= ?ltr_nat ?ler_nat.
Qed.

(* ---- Theorem 18.6 (The place of the knots) ---- *)
Section Knots.
Variables (R : realFieldType) (D : nat) (theta : R).
Variables (t y a : nat -> R).            (* t_0 < t_1 < ... < t_D, labels y_j, a j for a_(j+1) *)
(* (18.5): knot j is b_(j+1) = t_(j+1) - theta (t_(j+1) - t_j). *)
Definition knot j := t j.+1 - theta * (t j.+1 - t j).
Definition F x := \sum_(0 <= j < D) a j * relu (x - knot j).
Definition slope j := \sum_(0 <= i < j) a i.                       (* s_j = a_1 + ... + a_j *)
Definition rise j := (y j.+1 - y j) / (t j.+1 - t j).
(* The network meets its labels; y_0 = 0 at t_0, where all units are silent. *)
Definition fits := forall j, (j <= D)%N -> F (t j) = y j.

Hypothesis t_lt : forall j, t j < t j.+1.
Hypothesis theta_gt0 : 0 < theta.
Hypothesis theta_le1 : theta <= 1.

Lemma t_le i j : (i <= j)%N -> t i <= t j.
Proof. by apply: (homo_leq (@lexx _ _) (@le_trans _ _)) => k; apply: ltW. Qed.
(* t_j <= b_(j+1) < t_(j+1). *)
Lemma knot_ge j : t j <= knot j.
Proof. by rewrite /knot ler_subr_addl addrC -ler_subr_addl ler_pimull // subr_ge0 ltW. Qed.
Lemma knot_le j : knot j <= t j.+1.
Proof. by rewrite /knot ler_subl_addr ler_addl mulr_ge0 // ?subr_ge0 ltW. Qed.

(* Only the units before t_j speak at t_j. *)
Lemma F_at j : (j <= D)%N -> F (t j) = \sum_(0 <= i < j) a i * (t j - knot i).
Proof.
move=> jD; rewrite /F (big_cat_nat _ _ _ (leq0n j) jD) /=.
have -> : \sum_(j <= i < D) a i * relu (t j - knot i) = 0.
  rewrite big_nat_cond big1 // => i /andP[/andP[ji _] _].
  by rewrite relu_neg ?mulr0 // subr_le0; apply: le_trans (knot_ge i); apply: t_le.
rewrite addr0; apply: eq_big_nat => i /andP[_ ij].
by rewrite relu_pos // subr_ge0 (le_trans (knot_le i)) ?t_le.
Qed.

(* (18.6), times t_(j+1) - t_j: two stretches of slopes s_j and s_(j+1). *)
Lemma stretch j : (j < D)%N ->
  F (t j.+1) - F (t j) = (theta * slope j.+1 + (1 - theta) * slope j) * (t j.+1 - t j).
Proof.
move=> jD; rewrite !F_at ?(ltnW jD) // big_nat_recr //= addrAC -sumrB.
have -> : \sum_(0 <= i < j) (a i * (t j.+1 - knot i) - a i * (t j - knot i)) =
          slope j * (t j.+1 - t j).
  rewrite /slope mulr_suml; apply: eq_bigr => i _; rewrite -mulrBr; congr (_ * _).
  by move: (knot i) => k; rewrite opprB addrA subrK.
have -> : t j.+1 - knot j = theta * (t j.+1 - t j) by rewrite /knot opprB addrC subrK.
have -> : slope j.+1 = slope j + a j by rewrite /slope big_nat_recr.
ident.
Qed.

Lemma F_start : F (t 0%N) = 0.
Proof. by rewrite F_at // big_geq. Qed.

(* (18.6): the network meets its labels if and only if the slopes satisfy the recursion. *)
Theorem knots_recursion : y 0%N = 0 ->
  fits <-> forall j, (j < D)%N -> theta * slope j.+1 + (1 - theta) * slope j = rise j.
Proof.
move=> y0; have gap j : t j.+1 - t j != 0 by rewrite gt_eqF // subr_gt0.
split=> [fit j jD|rec].
  by apply: (mulIf (gap j)); rewrite -stretch // !fit ?(ltnW jD) // /rise divfK.
elim=> [|j IH] jD; first by rewrite F_start.
by apply: (addIr (- F (t j))); rewrite stretch // rec // /rise divfK // IH // ltnW.
Qed.

(* An error in one slope is multiplied by - (1 - theta) / theta from knot to knot. *)
Theorem knots_error (s_j s_k s_j' s_k' r : R) : theta * s_k + (1 - theta) * s_j = r ->
  theta * s_k' + (1 - theta) * s_j' = r -> s_k' - s_k = - ((1 - theta) / theta) * (s_j' - s_j).
Proof.
have th0 : theta != 0 by rewrite gt_eqF.
move=> e e'; apply: (mulfI th0); transitivity (- (1 - theta) * (s_j' - s_j)); last by field.
apply/eqP; rewrite -subr_eq0; apply/eqP.
transitivity ((theta * s_k' + (1 - theta) * s_j') - (theta * s_k + (1 - theta) * s_j)).
  by ring.
by rewrite e e' subrr.
Qed.

(* Theorem 18.6: for theta > 1/2 all slopes s_1, ..., s_D are at most M / (2 theta - 1). *)
Theorem knots_bound M : y 0%N = 0 -> fits -> 1 < 2%:R * theta ->
  (forall j, (j < D)%N -> `|rise j| <= M) ->
  forall j, (j < D)%N -> `|slope j.+1| <= M / (2%:R * theta - 1).
Proof.
move=> y0 /(knots_recursion y0) rec half rM; have c0 : 0 < 2%:R * theta - 1 by rewrite subr_gt0.
suff all_j j : (j <= D)%N -> (0 < D)%N -> `|slope j| <= M / (2%:R * theta - 1).
  by move=> j jD; apply: all_j => //; apply: leq_ltn_trans jD.
(* Induction from s_0 = 0. *)
elim: j => [|j IH] jD D0.
  by rewrite /slope big_geq // normr0 divr_ge0 ?(ltW c0) // (le_trans (normr_ge0 _) (rM _ D0)).
have -> : slope j.+1 = (rise j - (1 - theta) * slope j) / theta.
  by rewrite -rec // addrK mulrC mulKf ?gt_eqF.
rewrite normrM normfV (gtr0_norm theta_gt0) ler_pdivr_mulr //.
(* theta |s_(j+1)| <= M + (1 - theta) M / (2 theta - 1) = theta M / (2 theta - 1). *)
apply: le_trans (ler_norm_sub _ _) _.
rewrite (normrM (1 - theta)) (ger0_norm (_ : 0 <= 1 - theta)) ?subr_ge0 //.
apply: le_trans (ler_add (rM _ jD) (ler_wpmul2l _ (IH (ltnW jD) D0))) _; first by rewrite subr_ge0.
set K := M / _; have -> : M = K * (2%:R * theta - 1) by rewrite divfK ?gt_eqF.
by rewrite le_eqVlt; apply/orP; left; apply/eqP; ident.
Qed.
End Knots.

(* Theorem 18.6, zigzag labels 0, 1, 0, 1, ... at distance one, with rises 1, -1, 1, ... (so M = 1);
   for theta <= 1/2 they have a network with |s_D| > C, for any C: no bound holds for all D. *)
Section Zigzag.
Variables (R : archiFieldType) (theta : R).
Hypothesis theta_gt0 : 0 < theta.
Definition zig (j : nat) : R := (odd j)%:R.                              (* the labels *)
Fixpoint u j := if j is i.+1 then (1 + (1 - theta) * u i) / theta else 0.
Definition s j := (-1) ^+ j.+1 * u j.                                    (* s_j = (-1)^(j-1) u_j *)
Definition coef j := s j.+1 - s j.                                       (* a_(j+1) *)

(* The network that meets M times the zigzag labels, at distance one. *)
Lemma zig_fits (M : R) : theta <= 1 -> let t (j : nat) : R := j%:R in
  let y j := M * zig j in let a j := M * coef j in
  [/\ forall D, fits D theta t y a, forall j, `|rise t y j| = `|M| & forall j, slope a j = M * s j].
Proof.
move=> th1 t y a; have step j : t j < t j.+1 by rewrite ltr_nat.
have slE j : slope a j = M * s j.
  rewrite /slope -mulr_sumr; congr (_ * _).
  by rewrite /coef telescope_sumr // /s /= mulr0 subr0.
have riseE j : rise t y j = M * (-1) ^+ j.
  rewrite /rise /y /t /zig -mulrBr; have -> : j.+1%:R - j%:R = 1 :> R by rewrite -natrB // subSnn.
  rewrite divr1 -signr_odd /=.
  by case: (odd j); rewrite /= ?subr0 ?sub0r ?expr1 ?expr0.
split=> // [D|j]; last by rewrite riseE normrM normrX normrN1 expr1n mulr1.
apply/knots_recursion => // [|j _]; first by rewrite /y mulr0.
by rewrite !slE riseE /s /= !exprS; field; apply: lt0r_neq0.
Qed.
Lemma u_ge0 j : theta <= 1 -> 0 <= u j.
Proof.
move=> th1; elim: j => [|j IH] //=.
by rewrite divr_ge0 ?(ltW theta_gt0) // addr_ge0 ?ler01 // mulr_ge0 // subr_ge0.
Qed.
(* Theorem 18.6, zigzag labels: |s_j| = 2 j for theta = 1/2, and (18.7). *)
Theorem zigzag_closed j : 2%:R * theta != 1 ->
  u j = (((1 - theta) / theta) ^+ j - 1) / (1 - 2%:R * theta).
Proof.
move=> half; have c0 : 1 - 2%:R * theta != 0 by rewrite subr_eq0 eq_sym.
have th0 := lt0r_neq0 theta_gt0; elim: j => [|j IH] /=; first by rewrite subrr mul0r.
rewrite IH exprS; move: (_ ^+ j) => q; field.
by rewrite th0 c0.
Qed.
Theorem zigzag_half j : 2%:R * theta = 1 -> u j = 2%:R * j%:R.
Proof.
move=> half; have th0 := lt0r_neq0 theta_gt0; elim: j => [|j IH] /=; first by rewrite mulr0.
have e : theta = 2%:R^-1 by rewrite -[theta](mulKf (_ : 2%:R != 0)) ?pnatr_eq0 // half mulr1.
by rewrite IH e -addn1 natrD; field.
Qed.

(* For theta > 1/2 no smaller bound holds for all D: rises of at most M, and a slope as near to
   M / (2 theta - 1) as one likes. *)
Theorem knots_sharp (M K : R) : 0 < M -> 1 < 2%:R * theta -> theta <= 1 ->
  K < M / (2%:R * theta - 1) -> exists D (t y a : nat -> R),
  [/\ forall j, t j < t j.+1, y 0%N = 0, fits D theta t y a, forall j, `|rise t y j| <= M &
      K < `|slope a D|].
Proof.
move=> M0 half th1 KM; have c0 : 0 < 2%:R * theta - 1 by rewrite subr_gt0.
set q := (1 - theta) / theta; have q0 : 0 <= q by rewrite divr_ge0 ?subr_ge0 // ltW.
have q1 : q < 1 by rewrite ltr_pdivr_mulr // mul1r ltr_subl_addr -mulr2n -mulr_natl.
have arch : four_questions.archimedean R.
  by move=> x; exists (Num.bound `|x|); apply: le_lt_trans (ler_norm x) _; apply: archi_boundP.
have eps0 : 0 < 1 - K * (2%:R * theta - 1) / M.
  by rewrite subr_gt0 ltr_pdivr_mulr // mul1r -ltr_pdivl_mulr.
have [D /(_ D (leqnn D))] := four_questions.powers arch q0 q1 eps0.
rewrite ger0_norm ?exprn_ge0 // => small; have [fit rises slopes] := zig_fits M th1.
exists D, (fun j => j%:R), (fun j => M * zig j), (fun j => M * coef j).
split=> // [j||j|]; [by rewrite ltr_nat | by rewrite mulr0 | by rewrite rises gtr0_norm |].
rewrite slopes normrM gtr0_norm // normrM normrX normrN1 expr1n mul1r.
apply: lt_le_trans (ler_wpmul2l (ltW M0) (ler_norm _)).
rewrite zigzag_closed ?gt_eqF // -/q.
have -> : M * ((q ^+ D - 1) / (1 - 2%:R * theta)) = M * (1 - q ^+ D) / (2%:R * theta - 1).
  by rewrite -[1 - 2%:R * theta]opprB invrN; ring.
move: small; rewrite ltr_pdivl_mulr // ltr_subr_addl -ltr_subr_addr ltr_pdivr_mulr //.
by rewrite [M * _]mulrC.
Qed.

Hypothesis theta_le : 2%:R * theta <= 1.
Lemma u_grows j : 2%:R * j%:R <= u j.
Proof.
elim: j => [|j IH] /=; first by rewrite mulr0.
rewrite ler_pdivl_mulr //.
have u0 : 0 <= u j by apply: le_trans IH; rewrite -natrM ler0n.
have th : theta <= 1 - theta by rewrite ler_subr_addr -mulr2n -mulr_natl.
have -> : 2%:R * j.+1%:R * theta = 2%:R * theta + theta * (2%:R * j%:R).
  by rewrite -[j.+1]addn1 natrD; ring.
apply: ler_add => //; apply: le_trans (ler_wpmul2r u0 th).
by rewrite ler_pmul2l.
Qed.

Theorem knots_unbounded (C : R) : exists D, exists a : nat -> R,
  fits D theta (fun j => j%:R) zig a /\ (forall j, `|rise (fun j => j%:R) zig j| <= 1) /\
  C < `|slope a D|.
Proof.
have th1 : theta <= 1 by rewrite (le_trans _ theta_le) // mulr_natl mulr2n ler_addl ltW.
have [n Cn] : exists n : nat, C < n%:R.
  by exists (Num.bound `|C|); apply: le_lt_trans (ler_norm C) _; apply: archi_boundP.
have [fit rises slopes] := zig_fits 1 th1; exists n, (fun j => 1 * coef j).
have e j : 1 * zig j = zig j by rewrite mul1r.
split; [by move=> j jn; rewrite -e; apply: fit | split=> [j|]].
  by have := rises j; rewrite /rise !e => ->; rewrite normr1.
rewrite slopes mul1r /s normrM normrX normrN1 expr1n mul1r (lt_le_trans Cn) //.
apply: le_trans (ler_norm _); apply: le_trans (u_grows n).
by rewrite mulr_natl mulr2n ler_addl ler0n.
Qed.
End Zigzag.

(* ---- Proposition 18.4 (A unit an id) ---- *)
Section Width.
Variables (R : realFieldType) (h : R).                       (* the threshold, 1/2 in the book *)
(* A network: a constant and units (a, w, b) with output a relu(w t + b). *)
Definition net (c : R) (us : seq (R * R * R)) t :=
  c + \sum_(u <- us) u.1.1 * relu (u.1.2 * t + u.2).
(* Its normal form: an affine function and hinges (a, b) with output a relu(t - b). *)
Definition hinges p q (ks : seq (R * R)) t := p + q * t + \sum_(k <- ks) k.1 * relu (t - k.2).

Lemma normal_form c us : exists p q ks, (size ks <= size us)%N /\ net c us =1 hinges p q ks.
Proof.
elim: us => [|[[a w] b] us [p [q [ks [le eqn]]]]].
  by exists c, 0, [::]; split=> // t; rewrite /net /hinges !big_nil; ident.
have net t : net c ((a, w, b) :: us) t = a * relu (w * t + b) + hinges p q ks t.
  by rewrite -eqn /net big_cons /= addrCA.
have scale x y : 0 < x -> relu (x * y) = x * relu y.
  move=> x0; have [y0|y0] := leP 0 y; first by rewrite !relu_pos // mulr_ge0 // ltW.
  by rewrite !relu_neg ?mulr0 ?ltW // pmulr_rlt0.
case: (ltrgt0P w) => [w0|w0|w0].
- exists p, q, ((a * w, - (b / w)) :: ks); split=> // t; rewrite net /hinges big_cons /=.
  have -> : w * t + b = w * (t - - (b / w)) by rewrite opprK mulrDr mulrCA mulfV ?mulr1 ?gt_eqF.
  by rewrite scale // mulrA addrCA.
- exists (p + a * b), (q + a * w), ((- (a * w), - (b / w)) :: ks); split=> // t;
  rewrite net /hinges big_cons /=.
  have flip x : relu x = x + relu (- x).
    by have [x0|x0] := leP 0 x; [rewrite relu_pos // relu_neg ?addr0 ?oppr_le0 | rewrite relu_neg
      ?ltW // relu_pos ?subrr // oppr_ge0 ltW].
  have -> : relu (w * t + b) = w * t + b + (- w) * relu (t - - (b / w)).
    rewrite flip -scale ?oppr_gt0 //; congr (_ + relu _).
    by rewrite opprK mulrDr !mulNr mulrCA mulfV ?mulr1 ?lt_eqF // opprD.
  have key S x : a * (w * t + b + - w * x) + (p + q * t + S) = p + a * b + (q + a * w) * t + (-
    (a * w) * x + S) by ident.
  exact: key.
exists (p + a * relu b), q, ks; split; [exact: leqW | move=> t;
  rewrite net w0 mul0r add0r /hinges !addrA [_ + p]addrC //].
Qed.

(* The points are listed from the right to the left; their values lie above and below h in turn. *)
Definition side (s : bool) v := if s then h < v else v < h.
Fixpoint alternate (F : R -> R) s ts := if ts is t :: ts' then side s (F t) && alternate F (~~ s)
  ts' else true.
Definition falling := sorted (fun x y : R => y < x).

Lemma affine_side P Q x y z s : y < x -> z < y -> side s (P + Q * x) -> side (~~ s) (P + Q * y)
  -> side (~~ s) (P + Q * z).
Proof.
move=> yx zy; have neg u v : P + Q * u < P + Q * v -> u < v -> 0 < Q.
  by rewrite ltr_add2l => lt uv; rewrite ltNge; apply/negP => Q0; move: lt;
    rewrite ltNge ler_wnmul2l // ltW.
have pos u v : P + Q * v < P + Q * u -> u < v -> Q < 0.
  by rewrite ltr_add2l => lt uv; rewrite ltNge; apply/negP => Q0; move: lt;
    rewrite ltNge ler_wpmul2l // ltW.
case: s => /= sx sy.
  have Q0 := neg _ _ (lt_trans sy sx) yx; apply: lt_trans sy; by rewrite ltr_add2l ltr_pmul2l.
have Q0 := pos _ _ (lt_trans sx sy) yx; apply: lt_trans sy _; by rewrite ltr_add2l ltr_nmul2l.
Qed.
Lemma side_not s v : side s v -> ~~ side (~~ s) v.
Proof. by case: s => /= lt; rewrite -leNgt ltW. Qed.

(* Right of all knots the function is affine. *)
Lemma affine_end p q ks b : all (fun k => k.2 <= b) ks -> exists P Q, forall t,
  b <= t -> hinges p q ks t = P + Q * t.
Proof.
elim: ks => [|k ks IH] /=; first by exists p, q => t _; rewrite /hinges big_nil addr0.
case/andP=> kb /IH[P [Q PQ]]; exists (P - k.1 * k.2), (Q + k.1) => t bt.
have -> : hinges p q (k :: ks) t = k.1 * relu (t - k.2) + hinges p q ks t by rewrite /hinges
  big_cons addrCA.
by rewrite PQ // relu_pos ?subr_ge0 ?(le_trans kb) //; ident.
Qed.

Lemma bound p q ks ts s : sorted (fun k l : R * R => l.2 <= k.2) ks -> falling ts ->
  alternate (hinges p q ks) s ts -> (size ts <= size ks + 2)%N.
Proof.
elim: ks ts s => [|[a b] ks IH] ts s sk ft alt.
  case: ts ft alt => [|x [|y [|z ts]]] //= /and3P[yx zy _] /and4P[sx sy sz _]; exfalso.
  rewrite /hinges !big_nil !addr0 in sx sy sz.
  by have := side_not sz; rewrite negbK (affine_side yx zy sx sy).
have knots : all (fun k => k.2 <= b) ((a, b) :: ks).
  by rewrite /= lexx; apply: order_path_min sk => u v w uv vw; apply: le_trans vw uv.
have [P [Q PQ]] := affine_end p q knots; pose F := hinges p q ((a, b) :: ks);
  pose G := hinges p q ks.
have FG t : t <= b -> F t = G t.
  by move=> tb; rewrite /F /G /hinges big_cons /= relu_neg ?subr_le0 // mulr0 add0r.
have altG us s' : all (fun t => t <= b) us -> alternate F s' us -> alternate G s' us.
  by elim: us s' => //= t us IHu s' /andP[tb usb] /andP[st alts]; rewrite -FG // st IHu.
have below y us : y <= b -> falling (y :: us) -> all (fun t => t <= b) us.
  move=> yb fy; have tr : transitive (fun x y : R => y < x) by move=> u v w uv wu;
    apply: lt_trans wu uv.
  by have := order_path_min tr fy; apply: sub_all => t ty; rewrite ltW // (lt_le_trans ty).
have sk' : sorted (fun k l : R * R => l.2 <= k.2) ks by apply: path_sorted sk.
case: ts ft alt => [|x [|y ts]] //; rewrite /= -/F => /andP[yx fy] /and3P[sx sy alt].
rewrite addSn ltnS; have [yb|yb'] := leP y b.
  by apply: (IH (y :: ts) (~~ s)) => //; apply: altG => /=; rewrite ?yb ?(below y) // sy.
(* Two ids right of the last knot b: put b in place of y. *)
have Fb : side (~~ s) (F b).
  by move: sx sy; rewrite /F !PQ ?lexx ?ltW ?(lt_trans yb' yx) //; apply: affine_side.
case: ts fy alt => [|z ts] /=; first by rewrite addn2.
move=> /andP[zy fz] /andP[sz alt].
have zb : z < b.
  rewrite ltNge; apply/negP => bz; have right t : z <= t -> F t = P + Q * t by move=> zt;
    apply: PQ; apply: le_trans zt.
  move: sx sy sz; rewrite -/F !right ?lexx ?(ltW zy) ?(ltW (lt_trans zy yx)) // => sx sy /side_not.
  by rewrite negbK (affine_side yx zy sx sy).
apply: (IH (b :: z :: ts) (~~ s)) => //=; first by rewrite zb.
have zts : all (fun t => t <= b) (z :: ts) by rewrite /= ltW // (below z) // ltW.
apply: (altG (b :: z :: ts) (~~ s)); first by rewrite /= lexx.
by rewrite /= Fb sz.
Qed.

Theorem width c us ts s : falling ts -> alternate (net c us) s ts -> (size ts <= size us + 2)%N.
Proof.
move=> ft alt; have [p [q [ks [le eqn]]]] := normal_form c us.
pose by_knot := fun k l : R * R => l.2 <= k.2.
have tot : total by_knot by move=> k l; apply: le_total.
apply: leq_trans (_ : size (sort by_knot ks) + 2 <= _)%N; last by rewrite size_sort leq_add2r.
apply: (@bound p q (sort by_knot ks) ts s) => //; first exact: sort_sorted.
have eqs t : hinges p q (sort by_knot ks) t = net c us t.
  by rewrite eqn /hinges; congr (_ + _); apply: perm_big; rewrite perm_sort.
by elim: ts s alt {ft} => //= t ts IH s /andP[st alt]; rewrite eqs st IH.
Qed.
End Width.
(* An instance: one unit relu(t) tells the two ids 1 and 0 apart by the threshold 1/2. *)
Fact width_instance (R : realFieldType) : let us : seq (R * R * R) := [:: (1, 1, 0)] in
  falling [:: 1; 0 : R] /\ alternate 2%:R^-1 (net 0 us) true [:: 1; 0].
Proof.
have h0 : 0 < 2%:R^-1 :> R by rewrite invr_gt0 ltr0n.
have h1 : 2%:R^-1 < 1 :> R by rewrite invf_lt1 ?ltr0n ?ltr1n.
rewrite /falling /net /= ltr01 !big_seq1 /= !mul1r !addr0 !add0r relu_pos ?ler01 // relu_pos //.
by rewrite h0 h1.
Qed.

(* ---- Theorem 18.3 (One block memorizes) ---- *)
Section Block.
Variables (R : realFieldType) (d s N n : nat).
(* The weights of a softmax are phi(score) over their sum; phi = exp on the page. *)
Variable phi : R -> R.

(* The four matrices of a head of rank one, each a product of a column and a row (s + d numbers);
   D hidden units with d weights in, one bias and d weights out;
     a matrix and d biases on the skip. *)
Record block D := Block {
  q_in : 'cV[R]_d; q_out : 'rV[R]_s; k_in : 'cV[R]_d; k_out : 'rV[R]_s;
  v_in : 'cV[R]_d; v_out : 'rV[R]_s; o_in : 'cV[R]_s; o_out : 'rV[R]_d;
  W_in : 'M[R]_(d, D); b_in : 'rV[R]_D; W_out : 'M[R]_(D, d); W_skip : 'M[R]_d; b_out : 'rV[R]_d }.
(* Numbers in a matrix, and the numbers of the block. *)
Definition size_of p q (_ : 'M[R]_(p, q)) := (p * q)%N.
Definition parameters D (B : block D) :=
  (size_of (q_in B) + size_of (q_out B) + (size_of (k_in B) + size_of (k_out B)) +
  (size_of (v_in B) + size_of (v_out B)) + (size_of (o_in B) + size_of (o_out B)) +
  (size_of (W_in B) + size_of (W_out B)) + size_of (W_skip B))%N.
Definition biases D (B : block D) := (size_of (b_in B) + size_of (b_out B))%N.

(* What the block computes for token i of the sequence X (rows are tokens). *)
Definition head D (B : block D) (X : 'M[R]_(n, d)) : 'M[R]_(n, d) :=
  let A := X *m (q_in B *m q_out B) *m (X *m (k_in B *m k_out B))^T in
  X + (\matrix_(i, j) softmax phi (A i) j) *m (X *m (v_in B *m v_out B)) *m (o_in B *m o_out B).
Definition output D (B : block D) X : 'M[R]_(n, d) :=
  let h := head B X in
  h + (map_mx (@relu R) (h *m W_in B - \matrix_(_ < n) b_in B) *m W_out B + h *m W_skip B
       + \matrix_(_ < n) b_out B).

(* (18.1): the head with direction v, inverse temperature beta. *)
Variables (v : 'cV[R]_d) (beta : R).
Definition z (X : 'M[R]_(n, d)) i := (X *m v) i 0.
Definition f X i := \sum_j softmax phi (fun j => beta * z X i * z X j) j * z X j.

(* One hidden layer on the line gives finitely many numbers t their labels (Theorem 18.1), with as
   many units as one likes beyond the number of different t. *)
Lemma lookup (I : finType) (t : I -> R) (y : I -> 'rV[R]_d) D : (#|I| <= D)%N ->
  (forall i i', t i = t i' -> y i = y i') ->
  exists (b : 'rV[R]_D) (a : 'M[R]_(D, d)), forall i, \sum_j relu (t i - b 0 j) *: row j a = y i.
Proof.
move=> ID cons; pose ts := sort <=%R (undup [seq t i | i <- enum I]).
have ints i : t i \in ts by rewrite mem_sort mem_undup map_f ?mem_enum.
have sz : (size ts <= D)%N.
  by rewrite size_sort (leq_trans (size_undup _)) // size_map -cardE.
(* Unit j has its knot on the id before, the first one a unit further left. *)
pose b j := if j is j'.+1 then nth 0 ts j' else nth 0 ts 0 - 1.
pose lab x : 'rV[R]_d := if [pick i | t i == x] is Some i then y i else 0.
have labE i : lab (t i) = y i.
  by rewrite /lab; case: pickP => [i' /eqP/cons //|/(_ i)]; rewrite eqxx.
have srt : sorted <%R ts by rewrite sort_lt_sorted undup_uniq.
have lt_ts j k : (j < k)%N -> (k < size ts)%N -> nth 0 ts j < nth 0 ts k.
  by move=> jk ks; apply: (sorted_ltn_nth lt_trans) => //; rewrite inE ?(ltn_trans jk).
have [] := @exact_labels R (size ts) d (fun j => nth 0 ts j) (fun j => b j)
  (\matrix_(j < size ts) lab (nth 0 ts j)).
- case=> -[|j] js /=; first by rewrite ltr_subl_addr ltr_addl ltr01.
  exact: lt_ts.
- case=> i isz [[|j] js] //= ij; rewrite ltnS in ij.
  by move: ij; rewrite leq_eqVlt => /predU1P[->|ij];
    rewrite ?lexx // ltW // lt_ts // (ltn_trans _ js).
move=> a [fit _]; exists (\row_j b j),
  (\matrix_(j < D) if insub (j : nat) is Some k then row k a else 0) => i.
have js : (index (t i) ts < size ts)%N by rewrite index_mem.
have := fit (Ordinal js); rewrite /network /= nth_index // rowK nth_index // labE => <-.
pose G (j : nat) := relu (t i - b j) *: (if insub j is Some k then row k a else 0).
transitivity (\sum_(j < D) G j); first by apply: eq_bigr => j _; rewrite rowK mxE.
transitivity (\sum_(j < size ts) G j); last by apply: eq_bigr => j _; rewrite /G valK.
rewrite (big_ord_widen D G sz) [RHS]big_mkcond; apply: eq_bigr => j _.
by case: ifP => // js'; rewrite /G insubN ?scaler0 // js'.
Qed.

Lemma softmax_ext (l l' : 'I_n -> R) j : l =1 l' -> softmax phi l j = softmax phi l' j.
Proof. by move=> e; rewrite /softmax e; congr (_ / _); apply: eq_bigr => k _; rewrite e. Qed.

Variables (X y : 'I_N -> 'M[R]_(n, d)).          (* N sequences of n tokens, and their labels *)
Hypothesis s0 : (0 < s)%N.
Hypothesis v1 : v^T *m v = 1%:M.                 (* |v| = 1 *)
(* The head gives different pairs (token, multiset of its sequence) different pairs (z, f). *)
Hypothesis ids : forall S i S' i', z (X S) i = z (X S') i' -> f (X S) i = f (X S') i' ->
  row i (X S) = row i' (X S') /\
  perm_eq [seq row j (X S) | j <- enum 'I_n] [seq row j (X S') | j <- enum 'I_n].
(* Equal pairs have equal labels (a label of less than d entries is filled with zeros). *)
Hypothesis consistent : forall S i S' i', row i (X S) = row i' (X S') ->
  perm_eq [seq row j (X S) | j <- enum 'I_n] [seq row j (X S') | j <- enum 'I_n] ->
  row i (y S) = row i' (y S').

(* Theorem 18.3, for all small w > 0 and D >= nN hidden units; D = nN gives (18.4). The head of the
   block is (18.1) with the weight w. *)
Theorem one_block : exists2 w0, 0 < w0 & forall w, 0 < w < w0 -> forall D, (N * n <= D)%N ->
  exists B : block D,
  [/\ forall S i, row i (head B (X S)) = row i (X S) + (w * f (X S) i) *: v^T,
      forall S, output B (X S) = y S,
      (parameters B = 4 * (s + d) + d * (2 * D + d))%N & (biases B = D + d)%N].
Proof.
pose zz (p : 'I_N * 'I_n) := z (X p.1) p.2; pose ff (p : 'I_N * 'I_n) := f (X p.1) p.2.
(* Every small weight w tells different pairs (z, f) apart by t = z + w f. *)
pose bad (q : ('I_N * 'I_n) * ('I_N * 'I_n)) := `|(ff q.1 - ff q.2) / (zz q.1 - zz q.2)|.
have bad0 : 0 < 1 + \sum_q bad q.
  by rewrite ltr_paddr ?ltr01 // sumr_ge0 // => q _; apply: normr_ge0.
exists (1 + \sum_q bad q)^-1; first by rewrite invr_gt0.
move=> w /andP[w_gt0 w_lt] D ND; pose t p := zz p + w * ff p.
have apart p p' : t p = t p' -> zz p = zz p' /\ ff p = ff p'.
  rewrite /t => e; have e' : w * (ff p - ff p') = - (zz p - zz p').
    transitivity ((zz p + w * ff p) - (zz p' + w * ff p') - (zz p - zz p')); first by ring.
    by rewrite e; ring.
  have [ez|nz] := eqVneq (zz p) (zz p').
    split=> //; move/eqP: e'; rewrite ez subrr oppr0 mulf_eq0 gt_eqF //= subr_eq0.
    by move/eqP.
  have one : w * bad (p, p') = 1.
    rewrite /bad /= -[w](gtr0_norm w_gt0) -normrM mulrA e' mulNr divff ?subr_eq0 //.
    by rewrite normrN1.
  have : w * (1 + \sum_q bad q) < 1 by rewrite -ltr_pdivl_mulr // div1r.
  rewrite ltNge => /negP[]; rewrite -{1}one ler_wpmul2l ?(ltW w_gt0) //.
  rewrite (bigD1 (p, p')) //= addrCA ler_addl addr_ge0 ?ler01 // sumr_ge0 // => q _.
  exact: normr_ge0.
have lab p p' : t p = t p' -> row p.2 (y p.1) = row p'.2 (y p'.1).
  by case/apart => /ids h /h[]; apply: consistent.
have [|b [a fit]] := @lookup _ t (fun p => row p.2 (y p.1)) D _ lab.
  by rewrite card_prod !card_ord.
(* All units read along v; - I on the skip takes h away. *)
pose e : 'rV[R]_s := delta_mx 0 (Ordinal s0).
have ee : e *m e^T = 1%:M by rewrite trmx_delta mul_delta_mx; apply/matrixP => i j;
  rewrite !ord1 !mxE.
pose B := Block v (beta *: e) v e v e e^T (w *: v^T) (\matrix_(k, _) v k 0) b a (- 1%:M) 0.
(* The head of this block is (18.1). *)
have headE S i : row i (head B (X S)) = row i (X S) + (w * f (X S) i) *: v^T.
  set A := X S; pose c := A *m v; have zE i' : z A i' = c i' 0 by [].
  have scoreE j : (A *m (v *m (beta *: e)) *m (A *m (v *m e))^T) i j = beta * z A i * z A j.
    have -> : A *m (v *m (beta *: e)) *m (A *m (v *m e))^T = beta *: (c *m c^T).
      rewrite -!scalemxAr -scalemxAl; congr (_ *: _).
      by rewrite !mulmxA -/c trmx_mul mulmxA -(mulmxA c e) ee mulmx1.
    by rewrite !zE; move: c {zE} => c; rewrite !mxE big_ord1 !mxE mulrA.
  rewrite /head /= linearD /=; congr (_ + _).
  set P := \matrix_(_, _) _.
  have -> : P *m (A *m (v *m e)) *m (e^T *m (w *: v^T)) = w *: ((P *m (A *m v)) *m v^T).
    by rewrite !mulmxA -scalemxAr -(mulmxA (P *m A *m v) e) ee mulmx1.
  have UE : (P *m (A *m v)) i 0 = f A i.
    rewrite mxE /f; apply: eq_bigr => j _; congr (_ * _); rewrite mxE.
    by apply: softmax_ext => k; apply: scoreE.
  move: (P *m _) UE => U UE; apply/rowP => k.
  by rewrite !mxE big_ord1 UE !mxE mulrA.
exists B; split; [exact: headE | move=> S | | by rewrite /biases /size_of /= !mul1n].
  have tE i : row i (head B (X S)) *m v = (t (S, i))%:M.
    rewrite headE mulmxDl -scalemxAl v1 -row_mul; set c := X S *m v; apply/matrixP => k l.
    have zE : z (X S) i = c i 0 by [].
    by rewrite !ord1 /t /zz /ff /= zE; move: c {zE} => c; rewrite !mxE eqxx mulr1 mulr1n.
  rewrite /output; set h := head B (X S) in tE *; rewrite /=; set Q := map_mx _ _.
  have -> : h + (Q *m a + h *m - 1%:M + \matrix_(_ < n) 0) = Q *m a.
    rewrite mulmxN mulmx1; have -> : \matrix_(_ < n) (0 : 'rV[R]_d) = 0.
      by apply/row_matrixP => i; rewrite rowK row0.
    by rewrite addr0 addrCA subrr addr0.
  apply/row_matrixP => i; rewrite row_mul mulmx_sum_row -(fit (S, i)); apply: eq_bigr => j _.
  congr (_ *: _); rewrite /Q !mxE; congr (relu (_ - _)).
  have := congr1 (fun M : 'M_1 => M 0 0) (tE i); rewrite !mxE eqxx mulr1n => <-.
  by apply: eq_bigr => k _; rewrite !mxE.
(* Count: four products of two vectors, D units with d weights in and d out, and d^2. *)
have -> : (d * (2 * D + d) = d * D + d * D + d * d)%N by rewrite mulnDr mulnCA mul2n -addnn.
rewrite /parameters /size_of /= !muln1 !mul1n (addnC d s) [(D * d)%N]mulnC.
by rewrite !mulSn mul0n addn0 !addnA.
Qed.
End Block.
(* An instance of the hypotheses: one sequence of one token, with softmax weights 1. *)
Fact block_instance (R : realFieldType) : exists B : block R 1 1 1,
  forall S : 'I_1, output (n := 1) (fun _ => 1) B (1%:M : 'M_(1, 1)) = 0.
Proof.
have v1 : (1%:M : 'cV[R]_1)^T *m 1%:M = 1%:M by rewrite trmx1 mulmx1.
pose X (_ : 'I_1) : 'M[R]_1 := 1%:M; pose y (_ : 'I_1) : 'M[R]_1 := 0.
have same S i S' i' : row i (y S) = row i' (y S') by rewrite !ord1.
have sees S i S' i' : row i (X S) = row i' (X S') /\
  perm_eq [seq row j (X S) | j <- enum 'I_1] [seq row j (X S') | j <- enum 'I_1].
  by rewrite !ord1.
have [w0 w0_gt0 small] := @one_block R 1 1 1 1 (fun _ => 1) 1%:M 1 X y isT v1
  (fun S i S' i' _ _ => sees S i S' i') (fun S i S' i' _ _ => same S i S' i').
have [|B [_ out _ _]] := small (w0 / 2%:R) _ 1%N isT; last by exists B => S; apply: (out S).
by rewrite divr_gt0 ?ltr0n // ltr_pdivr_mulr ?ltr0n // ltr_pmulr // ltr1n.
Qed.

(* ---- Proposition 18.9 (Bits are not saved) ---- *)
(* An architecture maps the values of its W parameters, B bits each, to a labeling of D ids by
   C labels. If it reaches all labelings then C^D <= 2^(W B), that is W B >= D log2 C. *)
Theorem bits_not_saved (W B D C : nat)
    (arch : {ffun 'I_W -> 'I_(2 ^ B)} -> {ffun 'I_D -> 'I_C}) :
  (forall labels, exists weights, arch weights = labels) -> (C ^ D <= 2 ^ (W * B))%N.
Proof.
move=> onto.
(* There are C^D labelings, and at most as many as there are weights. *)
have : (#|{ffun 'I_D -> 'I_C}| <= #|{ffun 'I_W -> 'I_(2 ^ B)}|)%N.
  apply: leq_trans (leq_image_card arch _); apply: subset_leq_card; apply/subsetP=> y _.
  by have [w <-] := onto y; apply: image_f.
by rewrite !card_ffun !card_ord -expnM mulnC.
Qed.
(* An instance: one parameter of one bit reaches both labelings of one id by two labels. *)
Fact bits_instance : exists arch : {ffun 'I_1 -> 'I_(2 ^ 1)} -> {ffun 'I_1 -> 'I_2},
  forall labels, exists weights, arch weights = labels.
Proof. by exists id => labels; exists labels. Qed.

Example bits_met : (2 ^ 1 <= 2 ^ (1 * 1))%N.
Proof. by have [arch onto] := bits_instance; apply: bits_not_saved onto. Qed.
